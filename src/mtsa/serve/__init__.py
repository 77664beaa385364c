"""The local web page and its API: `mtsa serve`."""
