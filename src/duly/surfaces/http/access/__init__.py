"""Who may call, how often, and the same request sent again."""
