"""Pictures and tables of what came out."""
