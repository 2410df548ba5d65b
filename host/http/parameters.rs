//! The parameters of an address, read strictly: each wrong one is named, with what it takes.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use axum::http::Uri;

use crate::failure::Failure;
use crate::suggest;

/// The parameters that were given.
#[derive(Debug)]
pub(super) struct Parameters(BTreeMap<&'static str, String>);

impl Parameters {
    /// Reads them; `known` are those that the path takes.
    ///
    /// # Errors
    /// `VALIDATION` for one that the path does not take, or that is there twice.
    pub fn read(uri: &Uri, known: &[&'static str]) -> Result<Self, Failure> {
        let mut found = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            let Some(place) = known.iter().find(|known| **known == name) else {
                let name: String = name.chars().take(40).collect();
                let hint = suggest::hint(&name, known.iter().copied());
                let text = format!("is no parameter here{hint}; there are {}", known.join(", "));
                return Err(Failure::field(&name, text));
            };
            if found.insert(*place, value.into_owned()).is_some() {
                return Err(Failure::field(place, "is there twice; send it once"));
            }
        }
        Ok(Self(found))
    }

    /// Takes the text of one.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Takes the whole number that one is.
    ///
    /// # Errors
    /// `VALIDATION` where it is none, or not within `range`.
    pub fn number(&mut self, name: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| range.contains(number));
        let shown: String = text.chars().take(40).collect();
        let wrong = || format!("must be a whole number from {} to {}, not {shown:?}", range.start(), range.end());
        number.map(Some).ok_or_else(|| Failure::field(name, wrong()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Parameters, Failure> {
        Parameters::read(&format!("/p?{query}").parse().unwrap(), &["plugin", "limit"])
    }

    #[test]
    fn parameters_come_by_their_names() {
        let mut found = read("limit=7&plugin=a%20b").unwrap();
        assert_eq!(found.text("plugin").as_deref(), Some("a b"));
        assert_eq!((found.number("limit", 1..=9), found.number("limit", 1..=9)), (Ok(Some(7)), Ok(None)));
    }

    #[test]
    fn wrong_parameter_is_named_with_what_it_takes() {
        let faulty = |failure: Failure| (failure.fields[0].pointer.clone(), failure.detail);
        for (query, field, text) in [
            ("plugins=a", "/plugins", "did you mean \"plugin\"?; there are plugin, limit"),
            ("limit=1&limit=1", "/limit", "is there twice"),
        ] {
            let (pointer, detail) = faulty(read(query).unwrap_err());
            assert!(pointer == field && detail.contains(text), "{query}: {pointer} {detail}");
        }
        for wrong in ["", "abc", "-1", "0", "10", "1.5", "99999999999"] {
            let (pointer, detail) =
                faulty(read(&format!("limit={wrong}")).unwrap().number("limit", 1..=9).unwrap_err());
            assert!(pointer == "/limit" && detail.contains("a whole number from 1 to 9"), "{wrong}: {detail}");
        }
    }
}
