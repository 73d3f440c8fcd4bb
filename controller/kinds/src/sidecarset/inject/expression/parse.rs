//! From text to a tree.

use berth_workload::objects::quantity;

use super::ratio::Ratio;
use super::tree::{Node, Operation, Variable};

/// The longest expression, in bytes.
const LONGEST: usize = 256;
/// How many parentheses, functions and signs may be in each other.
const DEEPEST: usize = 32;
/// A number's digits, before and behind the point.
const MOST_DIGITS: usize = 20;
/// A number's exponent.
const LARGEST_EXPONENT: i32 = 18;

const UNITS: [&str; 11] = ["m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"];

pub(super) fn parse(text: &str, variable: Variable) -> Result<Node, String> {
    if text.len() > LONGEST {
        return Err(format!(
            "it has {} characters, and {LONGEST} are the most",
            text.len()
        ));
    }
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        variable,
        depth: 0,
    };
    if parser.tokens.is_empty() {
        return Err("it is empty".to_owned());
    }
    let node = parser.sum()?;
    match parser.next() {
        None => Ok(node),
        Some(token) => Err(format!(
            "{:?} cannot follow what is before it",
            token.text()
        )),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token<'a> {
    Sign(char),
    Number(&'a str),
    Word(&'a str),
}

impl Token<'_> {
    fn text(&self) -> String {
        match self {
            Self::Sign(sign) => sign.to_string(),
            Self::Number(text) | Self::Word(text) => (*text).to_owned(),
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, end) = match first {
            '+' | '-' | '*' | '/' | '(' | ')' | ',' => (Token::Sign(first), 1),
            '0'..='9' | '.' => {
                let end = number_end(rest);
                (Token::Number(&rest[..end]), end)
            }
            _ if first.is_ascii_alphabetic() || first == '_' => {
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                (Token::Word(&rest[..end]), end)
            }
            _ => return Err(format!("{first:?} means nothing here")),
        };
        tokens.push(token);
        rest = rest[end..].trim_start();
    }
    Ok(tokens)
}

/// The end of a number with its exponent, unit or percent sign. It begins with a digit or a point.
fn number_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let belongs = |at: usize| {
        let is_exponent = |at: usize| matches!(bytes.get(at), Some(b'e' | b'E'));
        match bytes[at] {
            b'.' | b'%' => true,
            // Only in 1e-3 is a sign part of a number.
            b'+' | b'-' => is_exponent(at - 1) && bytes.get(at + 1).is_some_and(u8::is_ascii_digit),
            other => other.is_ascii_alphanumeric(),
        }
    };
    (1..bytes.len())
        .find(|at| !belongs(*at))
        .unwrap_or(bytes.len())
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    variable: Variable,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn takes(&mut self, sign: char) -> bool {
        let is_next = self.tokens.get(self.at) == Some(&Token::Sign(sign));
        self.at += usize::from(is_next);
        is_next
    }

    fn must(&mut self, sign: char) -> Result<(), String> {
        if self.takes(sign) {
            return Ok(());
        }
        let found = self
            .tokens
            .get(self.at)
            .map_or("its end".to_owned(), |token| format!("{:?}", token.text()));
        Err(format!("there must be {sign:?} in place of {found}"))
    }

    fn sum(&mut self) -> Result<Node, String> {
        let mut node = self.product()?;
        loop {
            let operation = match () {
                () if self.takes('+') => Operation::Add,
                () if self.takes('-') => Operation::Subtract,
                () => return Ok(node),
            };
            node = two(operation, node, self.product()?);
        }
    }

    fn product(&mut self) -> Result<Node, String> {
        let mut node = self.factor()?;
        loop {
            let operation = match () {
                () if self.takes('*') => Operation::Multiply,
                () if self.takes('/') => Operation::Divide,
                () => return Ok(node),
            };
            node = two(operation, node, self.factor()?);
        }
    }

    fn factor(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!(
                "more than {DEEPEST} parentheses, functions or signs are in each other"
            ));
        }
        let node = match self.next() {
            Some(Token::Sign('-')) => Node::Negative(Box::new(self.factor()?)),
            Some(Token::Sign('(')) => {
                let node = self.sum()?;
                self.must(')')?;
                node
            }
            Some(Token::Number(text)) => number(text)?,
            Some(Token::Word(word)) => self.word(word)?,
            Some(Token::Sign(sign)) => return Err(format!("before {sign:?} something is missing")),
            None => return Err("at its end something is missing".to_owned()),
        };
        self.depth -= 1;
        Ok(node)
    }

    fn word(&mut self, word: &str) -> Result<Node, String> {
        let name = self.variable.name();
        let operation = match word.to_ascii_lowercase().as_str() {
            lower if lower == name => return Ok(Node::Variable),
            "max" => Operation::Max,
            "min" => Operation::Min,
            _ => {
                return Err(format!(
                    "{word:?} is not known; there are the variable {name} and the functions max and min"
                ));
            }
        };
        let two_arguments = |_| format!("{word} takes two arguments, as in {word}({name}, 1)");
        self.must('(').map_err(two_arguments)?;
        let left = self.sum()?;
        self.must(',').map_err(two_arguments)?;
        let right = self.sum()?;
        self.must(')').map_err(two_arguments)?;
        Ok(two(operation, left, right))
    }
}

fn two(operation: Operation, left: Node, right: Node) -> Node {
    Node::Two(operation, Box::new(left), Box::new(right))
}

/// A number, a percentage or an amount with a unit.
fn number(text: &str) -> Result<Node, String> {
    let units = UNITS.join(", ");
    let wrong = || {
        format!("{text:?} is no number, no percentage, and no amount with one of the units {units}")
    };
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    if UNITS.contains(&&text[end..]) {
        let thousandths = quantity::thousandths(text).ok_or_else(wrong)?;
        return Ok(Node::Amount(Ratio::whole(thousandths)));
    }
    let (text, shift) = text.strip_suffix('%').map_or((text, 0), |text| (text, -2));
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let places = i32::try_from(fraction.len()).map_err(|_| wrong())?;
    let exponent: i32 = exponent.parse().map_err(|_| wrong())?;
    let digits = format!("{whole}{fraction}");
    if digits.len() > MOST_DIGITS
        || exponent.abs() > LARGEST_EXPONENT
        || digits.bytes().any(|b| !b.is_ascii_digit())
    {
        return Err(wrong());
    }
    let digits: i128 = digits.parse().map_err(|_| wrong())?;
    Ratio::decimal(digits, exponent - places + shift)
        .map(Node::Number)
        .ok_or_else(wrong)
}
