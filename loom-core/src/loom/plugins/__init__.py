"""The plugin system: hook specifications, discovery, and the registries that hooks fill."""
