use proptest::prelude::*;

use super::*;
use berth_workload::objects::quantity;

fn made(text: &str, variable: Variable, of: &str) -> Result<String, String> {
    let of = quantity::thousandths(of).unwrap();
    let result = Expression::parse(text, variable)?.evaluate(of)?;
    Ok(variable.written(result))
}

#[test]
fn expressions_come_to() {
    let cpu = [
        ("cpu", "200m", "200m"),
        ("CPU * 2", "200m", "400m"),
        ("cpu*50%", "300m", "150m"),
        ("max(cpu*50%, 50m)", "60m", "50m"),
        ("Max(cpu*50%, 50m)", "600m", "300m"),
        (
            "min(max(max(max(0.5,0.5*cpu),cpu-1.0),cpu-1.0),3.0)",
            "10",
            "3",
        ),
        ("max(min(2*cpu,-cpu+3.0),2*cpu-3.0)", "1", "2"),
        ("cpu + 1", "500m", "1500m"),
        ("2", "0", "2"),
        ("10 - -5", "0", "15"),
        ("10--5", "0", "15"),
        ("20+-10+5", "0", "15"),
        ("2 + 3 * 4", "0", "14"),
        ("10 - 3 - 2", "0", "5"),
        ("cpu / 2 / 5", "1", "100m"),
        ("(100m + 50m) * 2 - 50m", "0", "250m"),
        ("1e3 + 2e2", "0", "1200"),
        ("1E+3+-200", "0", "800"),
        ("cpu*1e-3", "1", "1m"),
        ("1.5e2", "0", "150"),
        (".5 + .5", "0", "1"),
        ("1.5+2", "0", "3500m"),
        (" \t 2\n+ 3 ", "0", "5"),
        ("cpu / 3", "1", "333m"),
        ("cpu / 3 * 3", "1", "1"),
        ("cpu * 29%", "100m", "29m"),
        ("max(0.25, cpu)", "100m", "250m"),
        ("min(cpu, 1.5)", "1600m", "1500m"),
        ("cpu - 100m", "100m", "0"),
        ("max(cpu - 2, 0)", "1", "0"),
        ("100M", "0", "100M"),
        ("1P", "0", "1P"),
    ];
    for (text, of, expected) in cpu {
        assert_eq!(
            made(text, Variable::Cpu, of).as_deref(),
            Ok(expected),
            "{text} of {of}"
        );
    }
    let memory = [
        ("memory*50%", "100Mi", "50Mi"),
        ("memory + 100Mi", "924Mi", "1Gi"),
        ("0.5 * memory + max(0, memory-2Gi)", "4Gi", "4Gi"),
        ("memory", "10G", "10G"),
        ("memory", "1000Mi", "1000Mi"),
        ("memory*33%", "100Mi", "33Mi"),
        ("memory*33.3%", "100Mi", "34917580"),
        ("memory/3", "100", "33"),
        ("memory/3", "1Gi", "357913941"),
        ("1000", "0", "1k"),
        ("1Pi", "0", "1Pi"),
        ("min(memory, 1.5Gi)", "2Gi", "1536Mi"),
    ];
    for (text, of, expected) in memory {
        assert_eq!(
            made(text, Variable::Memory, of).as_deref(),
            Ok(expected),
            "{text} of {of}"
        );
    }
}

#[test]
fn parser_reports_invalid_expressions() {
    let deep = format!("{}cpu{}", "(".repeat(40), ")".repeat(40));
    let fits = format!("{}cpu{}", "(".repeat(30), ")".repeat(30));
    assert!(Expression::parse(&fits, Variable::Cpu).is_ok());
    let long = "1+".repeat(128) + "1";
    let table = [
        ("", "it is empty"),
        ("   ", "it is empty"),
        ("cpu*cpu", "two amounts cannot be multiplied"),
        ("100m*cpu", "two amounts cannot be multiplied"),
        ("2*(cpu*3)*(1m*2)", "two amounts cannot be multiplied"),
        ("1/cpu", "nothing can be divided by an amount"),
        ("cpu/0", "nothing can be divided by zero"),
        ("max(cpu, cpu/(1-1))", "nothing can be divided by zero"),
        (
            "memory",
            "\"memory\" is not known; there are the variable cpu and the functions max and min",
        ),
        ("undefined_var", "\"undefined_var\" is not known"),
        ("avg(1, 2)", "\"avg\" is not known"),
        ("max()", "before ')' something is missing"),
        ("max(10)", "max takes two arguments, as in max(cpu, 1)"),
        ("max(10, 20, 30)", "max takes two arguments"),
        ("max", "max takes two arguments"),
        ("(2 + 3", "there must be ')' in place of its end"),
        ("()", "before ')' something is missing"),
        ("2 +", "at its end something is missing"),
        ("2 3", "\"3\" cannot follow"),
        ("cpu cpu", "\"cpu\" cannot follow"),
        ("2 + @", "'@' means nothing here"),
        ("cpu * ½", "'½' means nothing here"),
        ("invalid expression @#$", "'@' means nothing here"),
        ("-10", "the result is below zero"),
        ("50m - 100m", "the result is below zero"),
        ("1e", "\"1e\" is no number"),
        ("1e+", "\"1e\" is no number"),
        ("1e3e2", "\"1e3e2\" is no number"),
        ("1eKi", "\"1eKi\" is no number"),
        ("1.2.3", "\"1.2.3\" is no number"),
        ("1.2.3Mi", "\"1.2.3Mi\" is no number"),
        ("50%%", "\"50%%\" is no number"),
        (".", "\".\" is no number"),
        ("1E", "\"1E\" is no number"),
        ("1Ei", "\"1Ei\" is no number"),
        ("10u", "\"10u\" is no number"),
        ("123456789012345678901", "is no number"),
        ("1e19", "is no number"),
        (
            "cpu*0.1234567890123456789*0.1234567890123456789",
            "numbers of more than 38 digits",
        ),
        (deep.as_str(), "more than 32 parentheses"),
        (long.as_str(), "it has 257 characters, and 256 are the most"),
    ];
    for (text, expected) in table {
        let error = Expression::parse(text, Variable::Cpu).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn calculation_reports_errors_of_the_amount() {
    assert_eq!(
        made("cpu - 100m", Variable::Cpu, "50m"),
        Err(NEGATIVE.to_owned())
    );
    assert!(
        made("cpu * 1e9", Variable::Cpu, "1P")
            .unwrap_err()
            .contains("larger than 8 Pi")
    );
}

proptest! {
    /// For every text: no panic, and an expression that can be read has a result or a reason for
    /// its absence.
    #[test]
    fn no_text_panics(text in "([0-9.]{1,3}|cpu|max\\(|min\\(|[-+*/(),% ]|[mkMGTPKi]|e){0,40}", of in 0_i128..=MOST) {
        if let Ok(expression) = Expression::parse(&text, Variable::Cpu) {
            prop_assert!(expression.evaluate(of).is_err() || expression.evaluate(of).unwrap() >= 0);
        }
    }

    /// A part of an amount is never more than the amount, and memory has no parts of bytes.
    #[test]
    fn a_part_is_not_more(percent in 0_u32..=100, of in 0_i128..1_i128 << 60) {
        let text = format!("memory*{percent}%");
        let part = Expression::parse(&text, Variable::Memory).unwrap().evaluate(of).unwrap();
        prop_assert!(part <= of && part % 1000 == 0);
    }

    /// A written amount is read as the same amount.
    #[test]
    fn written_amount_is_read_as_the_same_amount(thousandths in 0_i128..1_i128 << 60) {
        prop_assert_eq!(quantity::thousandths(&Variable::Cpu.written(thousandths)), Some(thousandths));
        let bytes = thousandths / 1000 * 1000;
        prop_assert_eq!(quantity::thousandths(&Variable::Memory.written(bytes)), Some(bytes));
    }
}
