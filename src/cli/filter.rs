//! Which queues a listing is about: `--tenant` and `--flow`, each of which may be left out.

use super::output::Failure;
use crate::base::{Name, QueueName};
use crate::disk::Disk;
use crate::queue::{self, Layout};

/// The names that were given.
pub struct Filter {
    tenant: Option<Name>,
    flow: Option<Name>,
}

impl Filter {
    /// Applies the rule for a name that becomes a path.
    ///
    /// # Errors
    /// A name that breaks it; both together are refused as a pair.
    pub fn parse(tenant: Option<&str>, flow: Option<&str>) -> Result<Filter, Failure> {
        if let (Some(tenant), Some(flow)) = (tenant, flow) {
            // Both together, so that the refusal names the pair.
            QueueName::parse(tenant, flow).map_err(|error| Failure::Told(error.to_string()))?;
        }
        let name = |flag: &str, text: Option<&str>| {
            let parsed = text.map(Name::parse).transpose();
            parsed.map_err(|fault| {
                Failure::new(format_args!("{flag} is not a name that can become a path"), fault)
            })
        };
        Ok(Filter { tenant: name("--tenant", tenant)?, flow: name("--flow", flow)? })
    }

    /// The one queue that is named, if both names are.
    pub fn one(&self) -> Option<QueueName> {
        let (tenant, flow) = self.tenant.as_ref().zip(self.flow.as_ref())?;
        Some(QueueName { tenant: tenant.clone(), flow: flow.clone() })
    }

    /// Whether nothing was named.
    pub fn is_everything(&self) -> bool {
        self.tenant.is_none() && self.flow.is_none()
    }

    /// The queues that pass, by tenant and flow. One that is named in full need not be there.
    ///
    /// # Errors
    /// A directory that cannot be read.
    pub fn queues(&self, disk: &dyn Disk, layout: &Layout) -> Result<Vec<QueueName>, Failure> {
        if let Some(queue) = self.one() {
            return Ok(vec![queue]);
        }
        let mut queues = queue::list_queues(disk, layout)
            .map_err(|error| Failure::new("cannot list the queues", error))?;
        queues.retain(|queue| {
            self.tenant.as_ref().is_none_or(|tenant| *tenant == queue.tenant)
                && self.flow.as_ref().is_none_or(|flow| *flow == queue.flow)
        });
        Ok(queues)
    }
}
