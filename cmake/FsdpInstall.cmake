# Install rules live here, in one place.
