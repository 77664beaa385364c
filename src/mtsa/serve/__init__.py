"""The web server of `mtsa serve`: the explorer page and a JSON API."""
