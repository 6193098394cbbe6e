"""What attention makes of a row of scores: the softmax and what was proposed in its place. One kernel a file."""
