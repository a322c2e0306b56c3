"use strict";

SwaggerUIBundle({
  url: document.getElementById("api").dataset.description,
  dom_id: "#api",
  deepLinking: true,
  displayRequestDuration: true,
  persistAuthorization: false,
  tryItOutEnabled: false,
  validatorUrl: null,
});
