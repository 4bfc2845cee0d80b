"""The cheapest rule for a deadline: backward induction on calibrated posteriors."""
