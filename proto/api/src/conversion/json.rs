//! JSON that is parsed only as far as needed: other parts stay text of any size and any depth.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::weight::scan;

/// The most fields of an object, or items of a list, that are parsed. A larger one stays text,
/// because each entry takes many times its text. No object that the schemas accept has as many in a
/// place that is converted.
const MOST_ENTRIES: usize = 16_384;
/// The largest text that is compared by its value, and not only by its spelling.
const COMPARED_MAX: usize = 64 << 10;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Json<'a> {
    /// Not parsed.
    Text(Cow<'a, str>),
    /// A parsed object.
    Object(Object<'a>),
    /// A parsed list.
    List(Vec<Json<'a>>),
}

impl Default for Json<'_> {
    fn default() -> Self {
        Self::Text(Cow::Borrowed("null"))
    }
}

/// Fields in their original order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> Json<'a> {
    /// From JSON text, which is not checked until it is parsed.
    pub(crate) fn of(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text.trim_ascii()))
    }

    /// From owned text.
    pub(crate) fn owned(text: impl Into<String>) -> Self {
        Self::Text(Cow::Owned(text.into()))
    }

    /// From a string value.
    pub(crate) fn string(value: &str) -> Self {
        Self::owned(Value::from(value).to_string())
    }

    /// The fields; `None` if it is not an object.
    pub(crate) fn object(&mut self) -> Option<&mut Object<'a>> {
        if let Self::Text(text) = self {
            *self = Self::Object(match text {
                Cow::Borrowed(text) => Object::read(text)?,
                Cow::Owned(text) => Object::read(text)?.into_owned(),
            });
        }
        if let Self::Object(object) = self {
            Some(object)
        } else {
            None
        }
    }

    /// The items; `None` if it is not a list.
    pub(crate) fn list(&mut self) -> Option<&mut Vec<Self>> {
        if let Self::Text(text) = self {
            *self = Self::List(match text {
                Cow::Borrowed(text) => items(text)?,
                Cow::Owned(text) => items(text)?.into_iter().map(Json::into_owned).collect(),
            });
        }
        if let Self::List(items) = self {
            Some(items)
        } else {
            None
        }
    }

    /// A nested field by its path; `None` if it is missing.
    pub(crate) fn at(&mut self, path: &[&str]) -> Option<&mut Self> {
        path.iter()
            .try_fold(self, |value, key| value.object()?.get_mut(key))
    }

    /// The string; `None` if it is not a string.
    pub(crate) fn as_string(&self) -> Option<String> {
        match self {
            Self::Text(text) if text.starts_with('"') => serde_json::from_str(text).ok(),
            _ => None,
        }
    }

    /// Whether it is `true`.
    pub(crate) fn is_true(&self) -> bool {
        matches!(self, Self::Text(text) if text == "true")
    }

    fn opens_with(&self, opening: char) -> bool {
        match self {
            Self::Text(text) => text.starts_with(opening),
            Self::Object(_) => opening == '{',
            Self::List(_) => opening == '[',
        }
    }

    /// Whether it is an object.
    pub(crate) fn is_object(&self) -> bool {
        self.opens_with('{')
    }

    /// Whether it is a list.
    pub(crate) fn is_list(&self) -> bool {
        self.opens_with('[')
    }

    /// Whether both are the same value. Other spellings of a large value do not count as the same.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        Compared::with(other.to_string()).is(self)
    }

    /// Approximate bytes of its text, which is the cost of parsing it.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Object(Object(fields)) => fields
                .iter()
                .map(|(key, value)| key.len() + value.size())
                .sum(),
            Self::List(items) => items.iter().map(|item| 1 + item.size()).sum(),
        }
    }

    /// As raw JSON, to be written into another value.
    pub(crate) fn raw(&self) -> Option<Box<RawValue>> {
        RawValue::from_string(self.to_string()).ok()
    }

    fn into_owned<'b>(self) -> Json<'b> {
        match self {
            Self::Text(text) => Json::Text(Cow::Owned(text.into_owned())),
            Self::Object(object) => Json::Object(object.into_owned()),
            Self::List(items) => Json::List(items.into_iter().map(Json::into_owned).collect()),
        }
    }
}

/// A value to compare with many others; it is parsed once.
pub(crate) struct Compared {
    text: String,
    value: OnceCell<Option<Value>>,
}

impl Compared {
    /// With this text.
    pub(crate) fn with(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            value: OnceCell::new(),
        }
    }

    /// Whether it is the same value. Other spellings of a large value do not count as the same.
    pub(crate) fn is(&self, other: &Json<'_>) -> bool {
        let other = other.to_string();
        let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
        let same = || {
            self.value
                .get_or_init(|| parse(&self.text))
                .as_ref()
                .is_some_and(|one| Some(one) == parse(&other).as_ref())
        };
        other == self.text || (self.text.len().max(other.len()) <= COMPARED_MAX && same())
    }
}

/// The JSON text.
impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Object(Object(fields)) => {
                f.write_str("{")?;
                for (at, (key, value)) in fields.iter().enumerate() {
                    let separator = if at == 0 { "" } else { "," };
                    write!(
                        f,
                        "{separator}{}:{value}",
                        serde_json::to_string(key).map_err(|_| fmt::Error)?
                    )?;
                }
                f.write_str("}")
            }
            Self::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    let separator = if at == 0 { "" } else { "," };
                    write!(f, "{separator}{item}")?;
                }
                f.write_str("]")
            }
        }
    }
}

impl<'a> Object<'a> {
    fn read(text: &'a str) -> Option<Self> {
        struct Fields(usize);
        impl<'a> Visitor<'a> for Fields {
            type Value = Object<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Object<'a>, A::Error> {
                #[derive(Deserialize)]
                struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
                let mut fields = Vec::with_capacity(self.0);
                while let Some((Key(key), value)) = map.next_entry::<Key<'a>, &'a RawValue>()? {
                    fields.push((key, Json::of(value.get())));
                }
                Ok(Object(fields))
            }
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        reader.deserialize_map(Fields(entries(text)?)).ok()
    }

    /// The value of a field.
    pub(crate) fn get(&self, key: &str) -> Option<&Json<'a>> {
        // Of a duplicate field the last one counts, as for every JSON parser.
        self.0
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// The value of a field, to change it.
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Json<'a>> {
        self.0
            .iter_mut()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// Sets a field.
    pub(crate) fn insert(&mut self, key: &str, value: Json<'a>) {
        match self.get_mut(key) {
            Some(old) => *old = value,
            None => self.0.push((Cow::Owned(key.to_owned()), value)),
        }
    }

    /// Removes a field.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Json<'a>> {
        let mut removed = None;
        self.0.retain_mut(|(name, value)| {
            let stays = name != key;
            if !stays {
                removed = Some(std::mem::take(value));
            }
            stays
        });
        removed
    }

    /// The value of a field. Inserts an empty object if it is missing.
    pub(crate) fn entry(&mut self, key: &str) -> Option<&mut Json<'a>> {
        if self.get(key).is_none() {
            self.insert(key, Json::Object(Object::default()));
        }
        self.get_mut(key)
    }

    /// How many fields there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no fields.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values of all fields.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Json<'a>> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// All fields.
    pub(crate) fn into_fields(self) -> Vec<(Cow<'a, str>, Json<'a>)> {
        self.0
    }

    fn into_owned<'b>(self) -> Object<'b> {
        let fields = self.0.into_iter();
        Object(
            fields
                .map(|(key, value)| (Cow::Owned(key.into_owned()), value.into_owned()))
                .collect(),
        )
    }
}

/// An upper bound of the number of entries, so that memory is allocated once. A growing list needs
/// three times its size. `None` if there are more than [`MOST_ENTRIES`].
fn entries(text: &str) -> Option<usize> {
    let mut commas = 0;
    scan(text, |byte, depth| {
        commas += usize::from(byte == b',' && depth == 1)
    });
    (commas < MOST_ENTRIES).then_some(commas + 1)
}

fn items(text: &str) -> Option<Vec<Json<'_>>> {
    struct Items(usize);
    impl<'a> Visitor<'a> for Items {
        type Value = Vec<Json<'a>>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }
        fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<Vec<Json<'a>>, A::Error> {
            let mut items = Vec::with_capacity(self.0);
            while let Some(item) = list.next_element::<&'a RawValue>()? {
                items.push(Json::of(item.get()));
            }
            Ok(items)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.deserialize_seq(Items(entries(text)?)).ok()
}
