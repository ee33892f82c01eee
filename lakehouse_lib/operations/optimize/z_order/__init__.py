"""The verb z_order: the layout of rows by keys, and the exchange that moves the rows."""
