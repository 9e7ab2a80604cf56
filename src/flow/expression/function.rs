//! The functions of the language: their names and how many arguments each takes. What they do is in
//! `evaluate`.

/// A function of the language. `matches` is none of these: its pattern is compiled when the
/// expression is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// `exists(p)`: whether the path leads to a value, `null` included.
    Exists,
    /// `default(p, v)`: the value at the path, or `v` when that is null or nothing is there.
    Default,
    /// `length(x)`: characters of a text, items of a list, members of an object.
    Length,
    /// `lower(s)`
    Lower,
    /// `upper(s)`
    Upper,
    /// `trim(s)`: without white space around it.
    Trim,
    /// `contains(s, t)`
    Contains,
    /// `starts_with(s, t)`
    StartsWith,
    /// `ends_with(s, t)`
    EndsWith,
    /// `string(x)`: the text of any value; of a list or an object its JSON.
    String,
    /// `number(x)`: the number that a text holds, as an XML element does.
    Number,
    /// `round(x, n)`: to `n` places, halves away from zero; `round(a / b, n)` divides exactly to
    /// `n` places.
    Round,
    /// `join(list, s)`: the texts of the items with `s` between them.
    Join,
    /// `json(x)`: the JSON text of a value.
    Json,
    /// `uuid()`: a new UUIDv4.
    Uuid,
    /// `now()`: the time in UTC, RFC 3339 with milliseconds.
    Now,
}

/// Each function's name and number of arguments.
pub const FUNCTIONS: [(&str, Function, usize); 16] = [
    ("exists", Function::Exists, 1),
    ("default", Function::Default, 2),
    ("length", Function::Length, 1),
    ("lower", Function::Lower, 1),
    ("upper", Function::Upper, 1),
    ("trim", Function::Trim, 1),
    ("contains", Function::Contains, 2),
    ("starts_with", Function::StartsWith, 2),
    ("ends_with", Function::EndsWith, 2),
    ("string", Function::String, 1),
    ("number", Function::Number, 1),
    ("round", Function::Round, 2),
    ("join", Function::Join, 2),
    ("json", Function::Json, 1),
    ("uuid", Function::Uuid, 0),
    ("now", Function::Now, 0),
];

/// The name of the function whose pattern is compiled when the expression is read.
pub const MATCHES: &str = "matches";

impl Function {
    /// Its name.
    pub fn name(self) -> &'static str {
        let known = FUNCTIONS.iter().find(|(_, function, _)| *function == self);
        known.map_or("", |(name, _, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_one_name() {
        for (name, function, _) in FUNCTIONS {
            assert_eq!(function.name(), name);
        }
    }
}
