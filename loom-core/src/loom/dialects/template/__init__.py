"""The ``template`` dialect: families, providers and applications."""
