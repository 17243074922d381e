"""`duly demo`: a crash that loses nothing, shown; and sample traffic for the dashboard."""
