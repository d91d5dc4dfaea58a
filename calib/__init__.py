"""Floor 3: enrolment, thresholds and rooms."""
