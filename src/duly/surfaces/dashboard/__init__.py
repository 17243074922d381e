"""The dashboard: pages for the browser that use only the public API."""
