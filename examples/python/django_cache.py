"""Django's cache in memory that all workers share.

    tidegate run django_cache:app --app-dir examples/python --workers 2
    curl http://127.0.0.1:8000/reports/2026
"""

import django
from django.conf import settings
from django.core.cache import cache
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path
from django.views.decorators.cache import cache_page

settings.configure(
    SECRET_KEY="only for trying it out",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    CACHES={"default": {"BACKEND": "tidegate.integrations.django.Cache"}},
)
django.setup()


@cache_page(60)
def report(request, year):
    """Made once in a minute, by one of all workers."""
    cache.add("reports", 0)
    return JsonResponse({"year": year, "reports": cache.incr("reports")})


urlpatterns = [path("reports/<int:year>", report)]
app = get_wsgi_application()
