"""Background: what stands behind the numbers of an evaluation, as plain values that a report can show."""
