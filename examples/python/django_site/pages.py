"""A site in Django, in one file: a template, a form with its protection, uploads, a long export.

    tidegate run pages:application --app-dir examples/python/django_site     # WSGI
    tidegate run pages:asgi --app-dir examples/python/django_site            # ASGI
"""

import hashlib
import os

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.middleware.csrf import get_token
from django.template import Context, Engine
from django.urls import path
from django.utils.cache import patch_cache_control
from django.views.decorators.csrf import csrf_exempt

settings.configure(
    ALLOWED_HOSTS=["*"],
    SECRET_KEY=os.environ.get("SITE_SECRET", "only for trying it out"),
    ROOT_URLCONF=__name__,
    MIDDLEWARE=[
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.middleware.http.ConditionalGetMiddleware",
    ],
    # Below which path it is reached from outside comes with each request.
    USE_X_FORWARDED_HOST=False,
    # Uploads above this are files in the temporary directory.
    FILE_UPLOAD_MAX_MEMORY_SIZE=1 << 20,
    DATA_UPLOAD_MAX_MEMORY_SIZE=None,
)

PAGE = Engine().from_string("""<!doctype html><title>{{ title }}</title>
<h1>{{ title }}</h1>
<form method="post" action="{{ root }}/greet">
<input type="hidden" name="csrfmiddlewaretoken" value="{{ token }}">
<input name="name"><button>Greet</button></form>
""")


def index(request):
    context = {"title": "A site", "token": get_token(request), "root": request.META["SCRIPT_NAME"]}
    return HttpResponse(PAGE.render(Context(context)))


def greet(request):
    return HttpResponse(Engine().from_string("Hello, {{ name }}!").render(
        Context({"name": request.POST.get("name", "stranger")})))


@csrf_exempt
def upload(request):
    """Every file of the form: its size and its digest, read in pieces."""
    told = {}
    for field, file in request.FILES.items():
        digest = hashlib.sha256()
        for piece in file.chunks():
            digest.update(piece)
        told[field] = {"name": file.name, "size": file.size, "sha256": digest.hexdigest()}
    return JsonResponse(told)


def export(request):
    """As many lines as are asked for; none of them waits for the last."""
    count = int(request.GET.get("lines", "1000"))
    return StreamingHttpResponse((f"line {number}\n" for number in range(count)),
                                 content_type="text/plain")


def news(request):
    answer = HttpResponse("Nothing is new.", content_type="text/plain")
    patch_cache_control(answer, public=True, max_age=30)
    return answer


urlpatterns = [path("", index), path("greet", greet), path("upload", upload),
               path("export", export), path("news", news)]

application = get_wsgi_application()
asgi = get_asgi_application()
