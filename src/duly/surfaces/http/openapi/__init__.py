"""The OpenAPI document and the documentation pages."""
