"""A policy on an arm: a guard for what it may do, drivers, and the loop that connects them."""
