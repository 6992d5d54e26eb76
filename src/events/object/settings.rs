//! What is set in an object before its programs are loaded: `vars.NAME=VALUE` and
//! `map:NAME.value[KEYS]=VALUE`.

use std::ops::RangeInclusive;

use super::super::Error;
use super::super::terms;
use super::super::terms::Term;
use super::super::terms::number;

/// One value that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What gets the value.
    pub to: Assign,
    /// The value, as it was written.
    pub value: String,
}

/// What gets a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assign {
    /// A global variable, or a member of one: `limit`, `config.limit`.
    Variable(String),
    /// Values of a map.
    Map {
        /// Its name.
        map: String,
        /// The keys; `None` for each that an array has.
        keys: Option<Vec<RangeInclusive<u64>>>,
    },
}

impl Setting {
    /// The setting that `term` is, or `None` if it is something else.
    pub(super) fn parse(list: &str, term: &Term<'_>) -> Result<Option<Self>, Error> {
        let wanted = "a value";
        let value = term.value.map(str::trim).filter(|it| !it.is_empty());
        let value = || value.map(str::to_owned).ok_or_else(|| terms::bad_value(list, term, wanted));
        if let Some(name) = term.name.strip_prefix("vars.").map(str::trim) {
            return Ok(Some(Self { to: Assign::Variable(name.to_owned()), value: value()? }));
        }
        let Some(rest) = term.name.strip_prefix("map:") else { return Ok(None) };
        let unknown = || {
            let forms = ["map:NAME.value", "map:NAME.value[0]"];
            terms::unknown(list, "a map of an object", term, forms.into_iter())
        };
        let (map, member) = rest.split_once('.').ok_or_else(unknown)?;
        let keys = member.strip_prefix("value").ok_or_else(unknown)?;
        let keys = keys_of(keys).ok_or_else(|| {
            let at = Term { value: Some(keys), value_at: term.at, ..*term };
            terms::bad_value(list, &at, "keys in brackets, as `[3]` or `[0,4...7]`")
        })?;
        Ok(Some(Self { to: Assign::Map { map: map.to_owned(), keys }, value: value()? }))
    }
}

/// The keys between brackets: numbers, and ranges `FIRST...LAST`.
#[expect(clippy::option_option, reason = "keys that are wrong, and keys that are not there")]
fn keys_of(text: &str) -> Option<Option<Vec<RangeInclusive<u64>>>> {
    if text.is_empty() || text == "[all]" {
        return Some(None);
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let key = |text: &str| {
        let (first, last) = text.split_once("...").unwrap_or((text, text));
        let (first, last) = (number(first.trim())?, number(last.trim())?);
        (first <= last).then_some(first..=last)
    };
    inner.split(',').map(key).collect::<Option<Vec<_>>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(text: &str) -> Result<Option<Setting>, String> {
        let term = terms::split(text, 0)[0];
        Setting::parse(text, &term).map_err(|it| it.to_string())
    }

    #[track_caller]
    fn check(text: &str, want_to: Assign, want_value: &str) {
        let want = Setting { to: want_to, value: want_value.to_owned() };
        assert_eq!(setting(text), Ok(Some(want)), "{text}");
    }

    #[test]
    fn variables_and_values_of_maps_are_set() {
        check("vars.min_ns=1000", Assign::Variable("min_ns".to_owned()), "1000");
        check("vars.config.on = 1", Assign::Variable("config.on".to_owned()), "1");
        let map = |keys| Assign::Map { map: "m".to_owned(), keys };
        check("map:m.value=7", map(None), "7");
        check("map:m.value[all]=7", map(None), "7");
        check("map:m.value[3]=7", map(Some(vec![3..=3])), "7");
        check("map:m.value[0,4...7]=7", map(Some(vec![0..=0, 4..=7])), "7");
        assert_eq!(setting("period=1"), Ok(None));
    }

    #[test]
    fn what_sets_nothing_is_refused_with_its_column() {
        assert_eq!(
            setting("vars.x").unwrap_err(),
            "`` at column 7 of `vars.x` is no value of `vars.x`, which is a value"
        );
        assert_eq!(
            setting("map:m.value[4...1]=1").unwrap_err(),
            "`[4...1]` at column 1 of `map:m.value[4...1]=1` is no value of \
             `map:m.value[4...1]`, which is keys in brackets, as `[3]` or `[0,4...7]`"
        );
        assert_eq!(
            setting("map:m.event=1").unwrap_err(),
            "`map:m.event` at column 1 of `map:m.event=1` is no term of `a map of an object`"
        );
    }
}
