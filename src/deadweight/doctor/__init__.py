"""The doctor: what is wrong or odd in a log, each finding with a code, the rows, and the remedy."""

from __future__ import annotations

from deadweight.doctor.diagnosis import Diagnosis, doctor, examine, examine_part
from deadweight.io.findings import Finding, LogProblem

__all__ = ["Diagnosis", "Finding", "LogProblem", "doctor", "examine", "examine_part"]
