"""A server that answers clouds over HTTP, with a stream per sensor, and its client."""
