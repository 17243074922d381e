"""What every route needs: bodies, pages, problems, ETags."""
