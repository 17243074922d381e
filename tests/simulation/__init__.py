"""The real engine on a simulated clock, network and machines, with faults drawn from a seed."""
