"""All that touches the disk: whole files or none, the cache, and run folders."""
