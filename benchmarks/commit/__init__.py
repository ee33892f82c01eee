"""What commits cost, beside delta-rs."""
