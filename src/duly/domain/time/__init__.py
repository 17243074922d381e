"""Time: schedule rules, cron expressions, durations and time zones."""
