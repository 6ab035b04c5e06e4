"""Networks of the space `nasrec-plus`."""
