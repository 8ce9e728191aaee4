"""Normal parameters that enter the mean of a normal response affinely, integrated out in closed form."""
