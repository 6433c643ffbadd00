"""The messages of proto/, as protoc writes them. Made by `make proto`."""
