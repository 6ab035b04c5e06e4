"""Images for vision networks: sets, and the files they come from."""
