//! `weir sim`: the balancer's own code in virtual time.
