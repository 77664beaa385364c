"""Speed and memory of the layers beside what people would use instead, measured in one run."""
