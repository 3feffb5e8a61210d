"""What answers say: JSON documents, tables and sentences, one module per resource."""
