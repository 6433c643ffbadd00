"""The catalog over HTTP: Iceberg's REST API, and a page to look at it. Starlette and uvicorn are here alone."""
