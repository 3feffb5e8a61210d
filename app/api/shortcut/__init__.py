"""One forecast without the router: from the cache, or gathered with simultaneous ones."""
