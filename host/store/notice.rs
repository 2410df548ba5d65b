//! What hosts that share a database tell each other: that something may wait for them. It never carries what is to be
//! done; that stands in the database.

/// One of the things that a host can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Steps of this plugin's workflows are due.
    Steps(String),
    /// Deliveries to this plugin have arrived.
    Arrived(String),
    /// Browsers have something to hear.
    Heard,
}

impl Notice {
    /// The form in which it travels.
    pub(super) fn text(&self) -> String {
        match self {
            Notice::Steps(plugin) => format!("steps {plugin}"),
            Notice::Arrived(plugin) => format!("arrived {plugin}"),
            Notice::Heard => "heard".to_owned(),
        }
    }

    /// The notice behind a text; `None` for what only another version knows.
    pub fn read(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            Some(("steps", plugin)) => Some(Notice::Steps(plugin.to_owned())),
            Some(("arrived", plugin)) => Some(Notice::Arrived(plugin.to_owned())),
            None if text == "heard" => Some(Notice::Heard),
            Some(_) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notice_is_read_as_it_was_told() {
        for notice in [Notice::Steps("a".to_owned()), Notice::Arrived("b".to_owned()), Notice::Heard] {
            assert_eq!(Notice::read(&notice.text()), Some(notice));
        }
        assert_eq!(Notice::read("later versions say more"), None);
    }
}
