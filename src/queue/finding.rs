//! What is found when a queue's files are verified.

use crate::base::limits::MAX_FINDINGS;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Something is not as it should be.
    Fault,
    /// Worth knowing, and no fault: what a crash leaves behind by design, for instance.
    Note,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file's name within the queue's directory; `.` for the directory itself.
    pub file: String,
    /// Offset and length in bytes of the place that it is about, if it is about one.
    pub place: Option<(u64, u64)>,
    /// For a person: what it is.
    pub text: String,
}

impl Finding {
    pub(crate) fn fault(file: &str, place: Option<(u64, u64)>, text: impl Into<String>) -> Finding {
        Finding { severity: Severity::Fault, file: file.to_owned(), place, text: text.into() }
    }

    pub(crate) fn note(file: &str, place: Option<(u64, u64)>, text: impl Into<String>) -> Finding {
        Finding { severity: Severity::Note, ..Finding::fault(file, place, text) }
    }
}

/// Findings, with a bound on how many are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The first [`MAX_FINDINGS`].
    pub list: Vec<Finding>,
    /// How many more faults there are.
    pub more_faults: u64,
}

impl Findings {
    pub(crate) fn push(&mut self, finding: Finding) {
        match (self.list.len() < MAX_FINDINGS, finding.severity) {
            (true, _) => self.list.push(finding),
            (false, Severity::Fault) => self.more_faults += 1,
            (false, Severity::Note) => {}
        }
    }

    pub(crate) fn extend(&mut self, other: Findings) {
        self.more_faults += other.more_faults;
        other.list.into_iter().for_each(|finding| self.push(finding));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether there is no fault among them.
    pub fn are_ok(&self) -> bool {
        self.more_faults == 0 && self.list.iter().all(|one| one.severity == Severity::Note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_the_bound_faults_are_counted_and_notes_are_dropped() {
        let mut findings = Findings::default();
        for _ in 0..MAX_FINDINGS {
            findings.push(Finding::note("f", None, "n"));
        }
        assert!(findings.are_ok());
        findings.push(Finding::note("f", None, "n"));
        findings.push(Finding::fault("f", Some((0, 1)), "bad"));
        assert_eq!((findings.list.len(), findings.more_faults), (MAX_FINDINGS, 1));
        assert!(!findings.are_ok());
    }
}
