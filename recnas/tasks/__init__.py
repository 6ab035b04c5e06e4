"""What is searched: clicks, images, or a table of trained networks. One search runs over any of them."""
