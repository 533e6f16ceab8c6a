"""Steps of optimizers: when one begins and ends, its parameters around the update, and the clock of all of them."""
