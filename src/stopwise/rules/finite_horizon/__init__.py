"""Stopping rules of least expected cost with a deadline: backward induction on calibrated posteriors."""
