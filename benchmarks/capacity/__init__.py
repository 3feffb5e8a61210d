"""Resources to serve more than one machine can: replicas, cores, storage, dollars a month."""
