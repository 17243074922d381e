"""Commands about keys and the audit trail."""
