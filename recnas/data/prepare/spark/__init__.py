"""The same preparation with its heavy stages on Spark's workers."""
