"""Files that were made to do harm, and a process that opens them."""
