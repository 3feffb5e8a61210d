"""Who calls: nobody known, or whom an issuer's token names."""
