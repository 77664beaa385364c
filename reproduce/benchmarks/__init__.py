"""Speed and memory of whole models, of tagging and of the server."""
